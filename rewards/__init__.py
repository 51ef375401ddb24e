"""Rewards: what a rollout earns, part by part, and the judges that compare rollouts."""
