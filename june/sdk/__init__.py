"""
Models behind the APIs of their providers: `june.sdk.openai.openai` and `june.sdk.anthropic.anthropic`.
"""
