"""One comparison of many models on one set of data: who takes part, how they run, how they are judged and ranked."""
