// error_of: what a call throws, for tests that look at code and message.
#pragma once

#include <boost/system/system_error.hpp>
#include <string>

#include "tests/support/catch.hpp"

namespace ddprun {

struct CaughtError {
    boost::system::error_code code;
    std::string text;

    bool mentions(const std::string& part) const { return text.find(part) != std::string::npos; }
};

template <typename Function>
CaughtError error_of(Function function) {
    try {
        function();
    } catch (const boost::system::system_error& error) {
        return {error.code(), error.what()};
    }
    FAIL("nothing was thrown");
    return {};
}

}  // namespace ddprun
