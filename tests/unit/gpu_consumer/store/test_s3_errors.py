import pytest
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from gpu_consumer.store.s3_errors import Cure, failure_of

URL = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    "error",
    [
        boto.EndpointConnectionError(endpoint_url=URL),
        boto.ConnectTimeoutError(endpoint_url=URL),
        boto.ProxyConnectionError(proxy_url=URL, error="x"),
        boto.CredentialRetrievalError(provider="x", error_msg="x"),
    ],
)
def test_a_request_that_was_not_sent_leaves_no_doubt(error: Exception) -> None:
    failure = failure_of(error)
    assert (failure.cure, failure.landed) == (Cure.RETRY, False)


@pytest.mark.parametrize(
    "error",
    [
        boto.ReadTimeoutError(endpoint_url=URL),
        boto.ConnectionClosedError(endpoint_url=URL),
        boto.HTTPClientError(error="broken pipe"),
        boto.ResponseStreamingError(error="cut"),
        boto.IncompleteReadError(actual_bytes=1, expected_bytes=2),
        ResponseParserError("a page of a proxy"),
    ],
)
def test_a_lost_answer_leaves_a_doubt(error: Exception) -> None:
    failure = failure_of(error)
    assert (failure.cure, failure.landed) == (Cure.RETRY, True)


@pytest.mark.parametrize(
    "error",
    [boto.NoCredentialsError(), boto.ParamValidationError(report="x"), boto.ProfileNotFound(profile="x")],
)
def test_what_is_wrong_here_is_given_up(error: Exception) -> None:
    assert failure_of(error).cure is Cure.GIVE_UP


def test_a_sentence_is_one_short_line() -> None:
    sentence = failure_of(ResponseParserError("<html>\n" * 1000)).sentence
    assert "\n" not in sentence
    assert len(sentence) <= 300
