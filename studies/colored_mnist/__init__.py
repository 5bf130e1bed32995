"""Table 1 and Figure 3 E and F: ColoredMNIST, all methods, with and without ERM pretraining."""
