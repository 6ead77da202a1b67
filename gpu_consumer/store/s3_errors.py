"""What an error of S3 means for one operation. Pure: an exception in, a Failure out.

Codes: Amazon S3 API Reference, "Error Responses".
"""

from dataclasses import dataclass
from enum import Enum

from botocore import exceptions as boto
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError


class Cure(Enum):
    """What the caller does next."""

    RETRY = "retry"  # after a pause, within the deadline
    SIGN_AGAIN = "sign again"  # once, at once: a request that was slow to arrive is not a wrong clock
    RENEW = "renew"  # once: new credentials from the chain, which a long-lived session may not have noticed
    GIVE_UP = "give up"  # an operator has to change something


@dataclass(frozen=True, slots=True)
class Failure:
    cure: Cure
    sentence: str
    landed: bool  # the request may have been carried out all the same


_RENEW = {"ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"}
_RETRY = {
    "BadDigest",  # damaged on the way, so nothing was stored
    "ConditionalRequestConflict",  # 409: another conditional write of this key is under way
    "IncompleteBody",
    "OperationAborted",
    "RequestTimeout",
    "SlowDown",
    "XAmzContentChecksumMismatch",
    "XAmzContentSHA256Mismatch",
}
_CURES = {
    "NoSuchBucket": "create the bucket or correct KILN_STORE_URL",
    "InvalidBucketName": "correct KILN_STORE_URL",
    # Without ListBucket, S3 answers a read of a missing object with a denial.
    "AccessDenied": "allow s3:GetObject, s3:PutObject and s3:ListBucket",
    "SignatureDoesNotMatch": "check the secret key, the region and a proxy that rewrites requests",
    "PermanentRedirect": "set KILN_STORE_REGION to the bucket's region, or KILN_STORE_ADDRESSING_STYLE",
    "AuthorizationHeaderMalformed": "set KILN_STORE_REGION to the bucket's region",
    "NotImplemented": "use a store with conditional writes (If-None-Match)",
}
# Nothing left this process, or no connection was made: the request cannot have been carried out.
_NOT_SENT = (
    boto.EndpointConnectionError,
    boto.ConnectTimeoutError,
    boto.ProxyConnectionError,
    boto.SSLError,
    boto.CredentialRetrievalError,
    boto.MetadataRetrievalError,
    boto.TokenRetrievalError,
)
# Connections and answers: lost, late, cut short, damaged, or not of S3 at all (a proxy's page).
_TRANSIENT = (
    *_NOT_SENT,
    boto.HTTPClientError,
    boto.ConnectionError,
    boto.IncompleteReadError,
    boto.FlexibleChecksumError,
    ResponseParserError,
)


def is_missing(error: ClientError) -> bool:
    """The object, and only the object, is not there."""
    code, status = _code(error), _status(error)
    return code == "NoSuchKey" or (status == 404 and code in ("404", "NotFound", ""))


def is_taken(error: ClientError) -> bool:
    """A conditional create found an object."""
    return _status(error) == 412 or _code(error) == "PreconditionFailed"


def failure_of(error: Exception) -> Failure:
    """What to do about any exception of botocore, save the two answers above."""
    if isinstance(error, ClientError):
        return _of_answer(error)
    if isinstance(error, _TRANSIENT):
        return Failure(Cure.RETRY, _one_line(error), landed=not isinstance(error, _NOT_SENT))
    if isinstance(error, boto.NoCredentialsError):
        return Failure(Cure.GIVE_UP, "no credentials were found; set AWS_ACCESS_KEY_ID or a profile", landed=False)
    return Failure(Cure.GIVE_UP, f"{_one_line(error)}; check the store's settings", landed=False)


def _of_answer(error: ClientError) -> Failure:
    code, status, sentence = _code(error), _status(error), _one_line(error)
    if code == "RequestTimeTooSkewed":
        clock = "this machine's clock and the store's differ by more than it accepts; set the clock"
        return Failure(Cure.SIGN_AGAIN, clock, landed=False)
    if code in _RENEW:
        return Failure(Cure.RENEW, f"{sentence}; renew the credentials", landed=False)
    # 500 and above may be said by a proxy after the server has done its work; 408 and 429 are said before.
    if status >= 500 and code != "NotImplemented":
        return Failure(Cure.RETRY, sentence, landed=True)
    if code in _RETRY or status in (408, 409, 429):
        return Failure(Cure.RETRY, sentence, landed=False)
    cure = _CURES.get(code)
    return Failure(Cure.GIVE_UP, f"{sentence}; {cure}" if cure else sentence, landed=False)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
