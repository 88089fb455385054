"""Herald's matching library: which of very many filters are TRUE of each event of a batch."""
