"""Authentication and access: authenticators for servers, credentials for clients, access rules, rate limits."""

from protolink_grpc.auth.bearer import BearerTokenAuth
from protolink_grpc.auth.credentials import APIKey, Basic, BearerToken, Credentials
from protolink_grpc.auth.oauth2 import OAuth2ClientCredentials
from protolink_grpc.auth.passwords import hash_password
from protolink_grpc.auth.principal import Authenticate, Principal
from protolink_grpc.auth.rate import RateLimit
from protolink_grpc.auth.rules import AccessRules, Admission, admission
from protolink_grpc.auth.schemes import AnyOf, APIKeyAuth, Authenticator, BasicAuth, MutualTLS

__all__ = [
    "APIKey",
    "APIKeyAuth",
    "AccessRules",
    "Admission",
    "AnyOf",
    "Authenticate",
    "Authenticator",
    "Basic",
    "BasicAuth",
    "BearerToken",
    "BearerTokenAuth",
    "Credentials",
    "MutualTLS",
    "OAuth2ClientCredentials",
    "Principal",
    "RateLimit",
    "admission",
    "hash_password",
]
