"""The subcommands of ``python -m collectives``, one file each."""
