"""`./herald demo`: a year of real flights through the whole service, checked by two other means."""
