"""
Traces for other tools: `june.tracing.otel` sends them as OpenTelemetry spans.
"""
