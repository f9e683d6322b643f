// A source for the build's sake: the tests take its precompiled headers (tests/CMakeLists.txt).
