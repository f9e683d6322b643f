#include "rendezvous/base/error.hpp"

#include <fmt/core.h>

namespace ddprun {
inline namespace base {
namespace {

class Category final : public boost::system::error_category {
  public:
    const char* name() const noexcept override { return "ddprun"; }

    std::string message(int value) const override {
        switch (static_cast<Errc>(value)) {
            case Errc::closed: return "closed by the other side";
            case Errc::connection_lost: return "connection lost";
            case Errc::timed_out: return "timed out";
            case Errc::protocol_violation: return "protocol violation";
            case Errc::limit_exceeded: return "limit exceeded";
            case Errc::refused: return "refused";
            case Errc::unreachable: return "unreachable";
            case Errc::address_in_use: return "address in use";
            case Errc::malformed: return "malformed";
        }
        return fmt::format("unknown error {}", value);
    }
};

}  // namespace

const boost::system::error_category& error_category() noexcept {
    static const Category category;
    return category;
}

boost::system::error_code make_error_code(Errc code) noexcept {
    return {static_cast<int>(code), error_category()};
}

void fail(Errc code, const std::string& what) { throw Error(make_error_code(code), what); }

void fail_errno(int error_number, const std::string& what) {
    const boost::system::error_code code(error_number, boost::system::system_category());
    throw Error(code, what + ": " + code.message());
}

}  // namespace base
}  // namespace ddprun
