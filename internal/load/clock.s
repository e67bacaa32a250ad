// The body of now is in the runtime; this file lets the compiler accept that.
