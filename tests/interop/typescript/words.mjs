// One spelling for what both clients find, so that the cases can compare it.

export const stateOf = (state) => String(state).replace("TASK_STATE_", "").toLowerCase().replaceAll("_", "-");

export const textOf = (parts) => parts.filter((part) => part.text !== undefined).map((part) => part.text).join("\n");
