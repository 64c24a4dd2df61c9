"""Entries of the catalogue: models linear in the features."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "LogisticRegression",
        "benthic.linear.logistic",
        family="linear",
        tasks=("classify",),
        data=("table",),
        rows=("F-02",),
        summary="Linear log-odds, binary or multinomial, with L1, L2 or elastic-net penalty.",
    ),
    Entry(
        "LinearRegression",
        "benthic.linear.regression",
        family="linear",
        tasks=("regress",),
        data=("table",),
        rows=("F-01",),
        summary="Least squares in closed form, with standard errors and intervals; streams and adds up.",
    ),
    Entry(
        "Ridge",
        "benthic.linear.ridge",
        family="linear",
        tasks=("regress",),
        data=("table",),
        rows=("F-01",),
        summary="Least squares with a penalty on the squared length of the coefficients.",
    ),
    Entry(
        "Lasso",
        "benthic.linear.lasso",
        family="linear",
        tasks=("regress",),
        data=("table",),
        rows=("F-01",),
        summary="Least squares with an L1 penalty: most coefficients are exactly zero.",
        quick_params={"alpha": 0.1},
    ),
    Entry(
        "ElasticNet",
        "benthic.linear.lasso",
        family="linear",
        tasks=("regress",),
        data=("table",),
        rows=("F-01",),
        summary="Least squares with L1 and L2 penalties.",
        quick_params={"alpha": 0.1},
    ),
    Entry(
        "Perceptron",
        "benthic.linear.perceptron",
        family="linear",
        tasks=("classify",),
        data=("table",),
        rows=("F-03",),
        summary="Hyperplane moved by its mistakes, with margin, radius and the bound on updates.",
    ),
    Entry(
        "PolynomialFeatures",
        "benthic.linear.polynomial",
        family="linear",
        tasks=("encode",),
        data=("table",),
        rows=("F-01",),
        summary="Products of columns up to a degree.",
    ),
)
