"""In place of Starlette: a worker without a server needs its requests and answers as values."""
