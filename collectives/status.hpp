// Status: how an operation ended, or how a communicator is, as a value. Public; standard library only.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "collectives/error.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// Status: what Communicator::attempt() and status() return. Nothing of a Status throws, copies included,
// except throw_if_failed().
class [[nodiscard]] Status {
  public:
    // Makes a status that says that all is well.
    Status() noexcept = default;
    explicit Status(const CollectiveError& error) noexcept : error_(error), ok_(false) {}
    // Returns the status that body() ends with.
    template <class Body>
    static Status of(Body body) noexcept;

    bool ok() const noexcept { return ok_; }
    // Returns what is wrong; nothing if all is well, so `status.code() == CollectiveErrorCode::peer_died` may
    // be asked.
    std::optional<CollectiveErrorCode> code() const noexcept;
    // Returns a sentence; "ok" if all is well. Valid as long as this object or a copy.
    std::string_view text() const noexcept;
    // Returns the ranks that the error is about, ascending; see CollectiveError.
    const std::vector<int>& culprits() const noexcept;
    // Returns the whole error; nothing if all is well.
    std::optional<CollectiveError> error() const noexcept;
    // Throws the error, if there is one.
    void throw_if_failed() const;

  private:
    // Returns the status of the exception that is being handled.
    static Status of_current_exception() noexcept;

    std::optional<CollectiveError> error_;
    bool ok_ = true;  // without an error and not ok: there was no memory for the error
};

template <class Body>
Status Status::of(Body body) noexcept {
    try {
        body();
        return {};
    } catch (...) {
        return of_current_exception();
    }
}

}  // namespace ddprun
#pragma GCC visibility pop
