"""
How results and inputs become JSON, and come back exactly as they were.

``register()`` teaches June a type. The rest of this page is what June itself uses.
"""

from june.codec._codecs import Codec, codec_for, recode, refusing, register
from june.codec._fields import has_fields
from june.codec._problems import Inexact, MistakenType, Undecodable, UnsupportedType
from june.codec._readings import MISSING
from june.codec._schemas import schema_for

__all__ = [
    "MISSING",
    "Codec",
    "Inexact",
    "MistakenType",
    "Undecodable",
    "UnsupportedType",
    "codec_for",
    "has_fields",
    "recode",
    "refusing",
    "register",
    "schema_for",
]
