"""Everything that starts, stops and tries out Herald: the command line, the local stack, images."""
