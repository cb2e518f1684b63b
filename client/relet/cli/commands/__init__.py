"""The subcommands, one module for each family of them."""
