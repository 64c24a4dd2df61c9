"""Models compared fairly: cross-validation with honest error bars, learning curves, bias and variance, tests."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "AugmentationGain": "benthic.leaderboard.augmentation",
    "BiasVariance": "benthic.leaderboard.decomposition",
    "ClassifierFeatures": "benthic.leaderboard.feature_space",
    "ClassifierTest": "benthic.leaderboard.two_sample",
    "Comparison": "benthic.leaderboard.contest.results",
    "CrossValidation": "benthic.leaderboard.cross_validation",
    "LearningCurve": "benthic.leaderboard.learning_curves",
    "NestedCrossValidation": "benthic.leaderboard.nested",
    "SyntheticTraining": "benthic.leaderboard.synthetic",
    "augmentation_gain": "benthic.leaderboard.augmentation",
    "bias_variance": "benthic.leaderboard.decomposition",
    "classifier_features": "benthic.leaderboard.feature_space",
    "classifier_two_sample": "benthic.leaderboard.two_sample",
    "compare": "benthic.leaderboard.contest.comparing",
    "compare_pair": "benthic.leaderboard.pairs",
    "cross_predict": "benthic.leaderboard.cross_validation",
    "cross_validate": "benthic.leaderboard.cross_validation",
    "draw_bias_variance": "benthic.leaderboard.figures",
    "draw_learning_curves": "benthic.leaderboard.figures",
    "draw_scores": "benthic.leaderboard.figures",
    "fold_plan": "benthic.leaderboard.plans",
    "learning_curve": "benthic.leaderboard.learning_curves",
    "nested_cross_validate": "benthic.leaderboard.nested",
    "train_on_synthetic": "benthic.leaderboard.synthetic",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
