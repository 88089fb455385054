"""One module a subcommand of `./herald`; `deploy.cli` says what each must offer."""
