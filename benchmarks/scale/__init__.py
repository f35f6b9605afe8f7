"""Past one machine: what a batch costs on a cluster, by formulas and by simulation, from figures of one machine."""
