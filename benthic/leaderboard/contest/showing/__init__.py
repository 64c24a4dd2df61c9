"""What a comparison looks like: the page, its pictures, the table while it runs."""
