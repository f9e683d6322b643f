// InputError: the user's file or flag is wrong. Thrown by train_digits' readers with one whole line that
// names the file (and line) or the flag and the value; main() prints it and ends with exit code 2.
#pragma once

#include <stdexcept>

namespace ddprun {

class InputError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace ddprun
