"""Custom operators: the contract with their methods, and the plan that runs them."""
