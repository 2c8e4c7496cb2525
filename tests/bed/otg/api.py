"""How the programs beside this one reach the server: by the transport that a place begins with."""

import snappi


def api_at(location):
    """A client for `https://HOST:PORT`, `http://`, `grpc://`, or `parts://`, which is gRPC with long messages in parts."""
    transport, _, place = location.partition("://")
    if transport not in ("grpc", "parts"):
        return snappi.api(location=location, verify=False)
    api = snappi.api(location=place, transport="grpc")
    # Messages of some MiB go in parts; here those of 100 bytes do.
    api.enable_grpc_streaming, api._chunk_size = transport == "parts", 100
    return api
