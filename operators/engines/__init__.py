"""Plans, and the engines that process batches by them: over panes, by folds, and those of rolling windows and of sessions."""
