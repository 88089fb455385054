"""One file an algorithm; `index.registry` lists them."""
