"""Figure 5: relative error by the share of entries observed, 20% to 80%, logistic noise model; 10 draws.

As Figure 4 otherwise.
"""

from discreet.papers.one_bit.fig4 import figure

REPRODUCTION = figure(5, "logistic", __doc__, "logistic")
