"""Sequences: hidden Markov models, Markov models of symbols, autoregression, and fields on chains and graphs."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "AutoRegressive": "benthic.chains.autoregressive",
    "Beliefs": "benthic.chains.graph_messages",
    "ConditionalRandomField": "benthic.chains.conditional_random_field",
    "Graph": "benthic.chains.graph_messages",
    "HiddenMarkovModel": "benthic.chains.hidden_markov",
    "Marginals": "benthic.chains.messages",
    "MarkovModel": "benthic.chains.markov_model",
    "PairwiseMarkovField": "benthic.chains.random_field",
    "Process": "benthic.chains.autoregressive_process",
    "annealed_log_partition": "benthic.chains.random_field_gibbs",
    "eliminate": "benthic.chains.graph_messages_exact",
    "eliminated_beliefs": "benthic.chains.graph_messages_exact",
    "eliminated_states": "benthic.chains.graph_messages_exact",
    "grid_edges": "benthic.chains.graph_messages",
    "kalman": "benthic.chains.autoregressive_gaps",
    "log_partition": "benthic.chains.messages",
    "loopy_messages": "benthic.chains.graph_messages",
    "marginals": "benthic.chains.messages",
    "sample_paths": "benthic.chains.messages",
    "smooth": "benthic.chains.autoregressive_gaps",
    "tree_messages": "benthic.chains.graph_messages",
    "tree_states": "benthic.chains.graph_messages",
    "viterbi": "benthic.chains.messages",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
