# shellcheck shell=bash
# Sourced by the other scripts: talk to the user, and install system packages where this user may.

say() { printf '==> %s\n' "$*" >&2; }

die() { # each argument is a line
  printf 'error: %s\n' "$1" >&2
  shift
  (($# == 0)) || printf '       %s\n' "$@" >&2
  exit 1
}

as_root() { # run a command as root, or fail quietly: never asks for a password
  if [[ $(id -u) == 0 ]]; then "$@"; else command -v sudo >/dev/null && sudo -n true 2>/dev/null && sudo -n "$@"; fi
}

apt_install() { # apt_install PACKAGE...; fails where there is no apt, no root and no password-less sudo
  command -v apt-get >/dev/null || return 1
  as_root true || return 1
  say "apt-get install $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 install --no-install-recommends -y "$@" >/dev/null ||
    { as_root apt-get -qq update >/dev/null &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 install --no-install-recommends -y "$@" >/dev/null; }
}
