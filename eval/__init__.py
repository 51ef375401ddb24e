"""Evaluation: metrics with intervals, paired comparisons, summaries and the report."""
