"""nginx, the floor: a plain reverse proxy with keep-alive upstreams, one worker, no log, no buffering of streams."""

import subprocess

from bench.install import debian_program
from bench.peer import Installed, Launch, Peer, Setup

_CONFIG = """\
worker_processes 1;
daemon off;
pid {work}/nginx.pid;
error_log {work}/error.log warn;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {work}/body;
    proxy_temp_path {work}/proxy;
    fastcgi_temp_path {work}/fastcgi;
    uwsgi_temp_path {work}/uwsgi;
    scgi_temp_path {work}/scgi;
    client_max_body_size 64m;
    client_body_buffer_size 64k;
    keepalive_requests 1000000000;
    upstream provider {{
        server 127.0.0.1:{upstream};
        keepalive 2048;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://provider;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


def _install() -> Installed:
    program = debian_program("nginx", "nginx", "nginx")
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    return Installed(version=said.rpartition("/")[2].strip(), program=program)


def _launch(installed: Installed, setup: Setup) -> Launch:
    config = setup.write("nginx.conf", _CONFIG.format(port=setup.port, upstream=setup.upstream, work=setup.work))
    return Launch(argv=(str(installed.program), "-p", str(setup.work), "-e", f"{setup.work}/error.log", "-c", config))


NGINX = Peer(name="nginx", about="C; plain reverse proxy, one worker: the floor", install=_install, launch=_launch)
