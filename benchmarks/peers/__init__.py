"""The systems that Headwise is compared with, as their users run them."""
