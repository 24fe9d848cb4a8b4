"""Get tokens for Amazon MSK from AWS's own signer. A broker of MSK that takes AWS_MSK_IAM takes them as OAUTHBEARER."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import cache, partial

from mirror.config.oauth import NoToken, Token, Tokens, lasting

_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}[a-z0-9-]*-[0-9]+)\.amazonaws\.com(?:\.cn)?(?::[0-9]+)?$")
SESSION = "kafka-mirror"  # of a role that is assumed, where the file names none


def region_of(bootstrap: Sequence[str]) -> str | None:
    """Return the region that the brokers' names tell, None where they tell none, as behind names of one's own."""
    found = {match[1] for address in bootstrap if (match := _BROKER.search(address)) is not None}
    return found.pop() if len(found) == 1 else None


def default_region() -> str | None:
    """Return the region of the environment or of AWS's configuration files, None where there is none."""
    import botocore.session

    region: str | None = botocore.session.Session().get_config_variable("region")
    return region


@cache
def tokens(region: str, profile: str, role: str, session: str) -> Tokens:
    """Return the tokens of an identity: the same for all connections in this process.

    Args:
        region: Where the cluster is.
        profile: Of AWS's configuration files; "" for the default credentials, or for a role.
        role: ARN of a role to assume, "" for none.
        session: Name of the role's session, "" for one of ours.
    """
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer

    sign = partial(Signer.generate_auth_token, region)
    if role:
        sign = partial(Signer.generate_auth_token_from_role_arn, region, role, session or SESSION)
    elif profile:
        sign = partial(Signer.generate_auth_token_from_profile, region, profile)
    return Tokens(partial(_signed, sign))


def _signed(sign: Callable[[], tuple[str, int]]) -> Token:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        value, ends_ms = sign()
    except AttributeError:  # the signer takes for granted that there are credentials
        raise NoToken("no token for Amazon MSK: AWS's credential chain has no credentials") from None
    except (BotoCoreError, ClientError, ValueError) as error:
        raise NoToken(f"no token for Amazon MSK: {' '.join(str(error).split())}") from None
    now_s = time.time()
    return lasting(value, now_s, max(0.0, ends_ms / 1000 - now_s))
