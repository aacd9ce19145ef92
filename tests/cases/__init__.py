"""Cases from public bug reports, run against the real gateway: `python -m tests.cases FOLDER`; see README.md here."""
