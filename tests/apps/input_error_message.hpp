// What a call's InputError says; empty if it throws none. For the tests of train_digits' readers.
#pragma once

#include <string>

#include "apps/train_digits/digits.hpp"

namespace ddprun {

template <class Call>
std::string input_error_message(Call call) {
    try {
        call();
    } catch (const InputError& error) {
        return error.what();
    }
    return {};
}

}  // namespace ddprun
