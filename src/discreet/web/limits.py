"""What the server takes from one client, and from all of them together."""

from dataclasses import dataclass

LOCAL = ("localhost", "127.0.0.1", "[::1]")  # the names that a machine has for itself
SMALL = 4 * 1024  # bytes of a body or an answer that are not counted: there are no more of them than connections
RETRY = 1  # seconds until those who came when too much was waiting may ask again


@dataclass(frozen=True)
class Limits:
    """The limits of a server, each with its reason.

    Whoever exceeds one is told which, in a sentence, as far as there is somebody who listens.
    """

    # of one request
    head: int = 16 * 1024  # bytes of the request line and headers; browsers send about one thousand
    fields: int = 100  # headers: many tiny ones take far more memory than they have bytes
    body: int = 256 * 1024  # bytes: some thousand ratings
    histories: int = 100  # in one request
    answer: int = 10_000  # recommendations in one answer, about a megabyte: a short question has no endless answer
    pipelined: int = 16  # requests on a connection that may wait for the answer to an earlier one

    # of the time that one client may keep the server waiting, in seconds
    head_time: float = 10.0  # for a whole head, from its first byte, or from the connection
    body_time: float = 10.0  # for a whole body, from the head on
    unread: float = 10.0  # without reading on, when there is more of an answer than the connection holds
    idle: float = 15.0  # between two requests

    # of all clients together
    connections: int = 512  # beyond that, whoever has kept the server waiting longest is disconnected
    waiting: int = 4096  # work that may wait (see `Asked.size`): less than a second of it
    memory: int = 32 * 1024 * 1024  # bytes of bodies and answers at hand, small ones apart


DEFAULTS = Limits()
