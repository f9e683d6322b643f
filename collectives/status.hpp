// Status: how an operation ended, or how a communicator is, as a value. Public; standard library only.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "collectives/error.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// A Status is what Communicator::attempt() and status() return. Nothing here throws, copies included, but
// throw_if_failed.
class [[nodiscard]] Status {
  public:
    // All is well.
    Status() noexcept = default;
    explicit Status(const CollectiveError& error) noexcept : error_(error), ok_(false) {}
    // The status that body() ends with.
    template <class Body>
    static Status of(Body body) noexcept;

    bool ok() const noexcept { return ok_; }
    // The code says what is wrong; nothing if all is well, so `status.code() ==
    // CollectiveErrorCode::peer_died` may be asked.
    std::optional<CollectiveErrorCode> code() const noexcept;
    // A sentence; "ok" if all is well. Valid as long as this object or a copy.
    std::string_view text() const noexcept;
    // The ranks it is about, ascending; see CollectiveError.
    const std::vector<int>& culprits() const noexcept;
    // The whole error; nothing if all is well.
    std::optional<CollectiveError> error() const noexcept;
    // Throws that.
    void throw_if_failed() const;

  private:
    // Called while an exception is handled.
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
