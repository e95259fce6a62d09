"""`python -m accelsim` is the command `accelsim`."""

from accelsim.cli import main

if __name__ == "__main__":
    main()
