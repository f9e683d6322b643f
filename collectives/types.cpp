#include "collectives/types.hpp"

#include <algorithm>
#include <exception>

#include "collectives/error.hpp"
#include "collectives/status.hpp"

namespace ddprun {
namespace {

constexpr const char* kNoMemory = "out of memory";

constexpr std::string_view kUnknown = "unknown";

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

struct CollectiveError::Details {
    CollectiveErrorCode code;
    std::vector<int> culprits;
    std::string operation;
    std::uint64_t sequence;
};

std::string_view name_of(CollectiveErrorCode code) noexcept {
    switch (code) {
        case CollectiveErrorCode::invalid_argument: return "invalid_argument";
        case CollectiveErrorCode::timed_out: return "timed_out";
        case CollectiveErrorCode::peer_died: return "peer_died";
        case CollectiveErrorCode::peer_left: return "peer_left";
        case CollectiveErrorCode::aborted: return "aborted";
        case CollectiveErrorCode::mismatch: return "mismatch";
        case CollectiveErrorCode::system: return "system";
    }
    return "unknown";
}

CollectiveError::CollectiveError(CollectiveErrorCode code, const std::string& what, std::vector<int> culprits,
                                 std::string operation, std::uint64_t sequence)
    : std::runtime_error(what) {
    std::sort(culprits.begin(), culprits.end());
    details_ =
        std::make_shared<const Details>(Details{code, std::move(culprits), std::move(operation), sequence});
}

CollectiveErrorCode CollectiveError::code() const noexcept { return details_->code; }
const std::vector<int>& CollectiveError::culprits() const noexcept { return details_->culprits; }
const std::string& CollectiveError::operation() const noexcept { return details_->operation; }
std::uint64_t CollectiveError::sequence() const noexcept { return details_->sequence; }

bool is_known(DataType type) noexcept { return size_of(type) != 0; }
bool is_known(ReduceOp op) noexcept { return name_of(op) != kUnknown; }
bool is_known(Compression compression) noexcept { return name_of(compression) != kUnknown; }

bool is_defined(ReduceOp op, DataType type) noexcept {
    const bool floating =
        type == DataType::f32 || type == DataType::f64 || type == DataType::f16 || type == DataType::bf16;
    if (op == ReduceOp::premul_sum) return floating;
    const bool of_bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
    return !(of_bits && floating);
}

bool is_defined(Compression compression, DataType type) noexcept {
    switch (compression) {
        case Compression::none: return true;
        case Compression::f16: return type == DataType::f32 || type == DataType::f16;
        case Compression::bf16: return type == DataType::f32 || type == DataType::bf16;
    }
    return false;
}

std::size_t size_of(DataType type) noexcept {
    switch (type) {
        case DataType::i8:
        case DataType::u8: return 1;
        case DataType::f16:
        case DataType::bf16: return 2;
        case DataType::f32:
        case DataType::i32:
        case DataType::u32: return 4;
        case DataType::f64:
        case DataType::i64:
        case DataType::u64: return 8;
    }
    return 0;
}

std::string_view name_of(DataType type) noexcept {
    switch (type) {
        case DataType::f32: return "f32";
        case DataType::f64: return "f64";
        case DataType::i32: return "i32";
        case DataType::i64: return "i64";
        case DataType::i8: return "i8";
        case DataType::u8: return "u8";
        case DataType::u32: return "u32";
        case DataType::u64: return "u64";
        case DataType::f16: return "f16";
        case DataType::bf16: return "bf16";
    }
    return kUnknown;
}

std::string_view name_of(ReduceOp op) noexcept {
    switch (op) {
        case ReduceOp::sum: return "sum";
        case ReduceOp::prod: return "prod";
        case ReduceOp::min: return "min";
        case ReduceOp::max: return "max";
        case ReduceOp::avg: return "avg";
        case ReduceOp::premul_sum: return "premul_sum";
        case ReduceOp::band: return "band";
        case ReduceOp::bor: return "bor";
        case ReduceOp::bxor: return "bxor";
    }
    return kUnknown;
}

std::string_view name_of(Compression compression) noexcept {
    switch (compression) {
        case Compression::none: return "none";
        case Compression::f16: return "f16";
        case Compression::bf16: return "bf16";
    }
    return kUnknown;
}

}  // namespace ddprun
