"""The browser explorer: traces of trained runs, and the pages that show them."""
