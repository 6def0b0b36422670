"""What answers while no model may."""
