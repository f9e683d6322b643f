#include "collectives/status.hpp"

#include <exception>

namespace ddprun {
namespace {

constexpr const char* kNoMemory = "out of memory";

}  // namespace

Status Status::of_current_exception() noexcept {
    Status status;
    status.ok_ = false;
    try {
        try {
            throw;
        } catch (const CollectiveError& error) {
            status.error_ = error;
        } catch (const std::exception& error) {
            status.error_.emplace(CollectiveErrorCode::system, error.what());
        } catch (...) {
            status.error_.emplace(CollectiveErrorCode::system, "an unknown error");
        }
    } catch (const std::exception&) {
        // No memory for the text either: text() has one that needs none.
        status.error_.reset();
    }
    return status;
}

std::optional<CollectiveErrorCode> Status::code() const noexcept {
    if (ok_) return std::nullopt;
    return error_ ? error_->code() : CollectiveErrorCode::system;
}

std::string_view Status::text() const noexcept {
    if (ok_) return "ok";
    return error_ ? error_->what() : kNoMemory;
}

const std::vector<int>& Status::culprits() const noexcept {
    static const std::vector<int> nobody;
    return error_ ? error_->culprits() : nobody;
}

std::optional<CollectiveError> Status::error() const noexcept { return error_; }

void Status::throw_if_failed() const {
    if (error_) throw *error_;
    if (!ok_) throw CollectiveError(CollectiveErrorCode::system, kNoMemory);
}

}  // namespace ddprun
