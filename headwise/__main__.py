"""`python -m headwise`: the command line, also where a launcher such as torchrun starts modules."""

from headwise.cli.main import run

if __name__ == "__main__":
    run()
