// Errc is ddprun's own category of errors: what can go wrong in the world outside.
//
// Error, a boost::system::system_error, is thrown with an Errc; its what() says what failed, where, and which
// flag controls it. Pure cores throw no Error; they return values. Bugs in ddprun go through check().
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <string>
#include <utility>

namespace ddprun {
inline namespace base {

enum class Errc {
    closed = 1,          // the other side ended the conversation in order
    connection_lost,     // the connection broke, or its other end died
    timed_out,           // a bounded wait ended
    protocol_violation,  // the other side sent what no correct program sends
    limit_exceeded,      // a named limit was passed
    refused,             // the other side understood and said no
    unreachable,         // name not resolved, no route, connection refused
    address_in_use,      // the requested port is taken
    malformed,           // a text or file does not have the stated form
};

const boost::system::error_category& error_category() noexcept;
boost::system::error_code make_error_code(Errc code) noexcept;

// Error is a system_error; its what() is the sentence alone, fit to be shown to a user.
class Error : public boost::system::system_error {
  public:
    Error(boost::system::error_code code, std::string text) : system_error(code), text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;
};

// Throws an Error with our category. `what` is a whole sentence without final stop.
[[noreturn]] void fail(Errc code, const std::string& what);

// Throws an Error with the operating system's error number (an errno value); that error's text follows
// `what`.
[[noreturn]] void fail_errno(int error_number, const std::string& what);

}  // namespace base
}  // namespace ddprun

template <>
struct boost::system::is_error_code_enum<ddprun::Errc> : std::true_type {};
