// Which of several SIGINT are one Ctrl-C, and which one is the user's impatience.
#include "launcher/process/signal_delivery.hpp"

#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

using Time = std::chrono::microseconds;

struct Sent {
    Time at;
    Interrupt meaning;
};

struct InterruptCase {
    const char* what;
    Time answered;  // the first one
    std::vector<Sent> sent;
};

constexpr Interrupt kFirst = Interrupt::first;
constexpr Interrupt kRepeated = Interrupt::repeated;
constexpr Interrupt kImpatient = Interrupt::impatient;
constexpr Interrupts::TimePoint kFirstTime = Interrupts::TimePoint() + 1h;

}  // namespace

TEST_CASE("interrupts that come within a second of the first one are the same Ctrl-C") {
    const std::vector<InterruptCase> cases = {
        {"passed on by a wrapper", 0us, {{0us, kFirst}, {500us, kRepeated}}},
        {"by a slower one", 0us, {{0us, kFirst}, {20ms, kRepeated}, {200ms, kRepeated}, {999ms, kRepeated}}},
        {"a second later", 0us, {{0us, kFirst}, {1s, kImpatient}}},
        {"an hour later, passed on again", 0us, {{0us, kFirst}, {1h, kImpatient}, {1h + 20ms, kImpatient}}},
        {"again and again, never a second apart",
         0us,
         {{0us, kFirst}, {400ms, kRepeated}, {800ms, kRepeated}, {1200ms, kImpatient}}},
        {"the first one took long to answer, and others came meanwhile",
         5s,
         {{0us, kFirst}, {5s, kRepeated}, {5999ms, kRepeated}, {6s, kImpatient}}},
    };
    for (const InterruptCase& one : cases) {
        Interrupts interrupts;
        for (const Sent& sent : one.sent) {
            INFO(one.what << ", after " << sent.at.count() << " us");
            CHECK(interrupts.take(kFirstTime + sent.at) == sent.meaning);
            if (sent.meaning == kFirst) interrupts.first_answered(kFirstTime + one.answered);
        }
    }
}

}  // namespace ddprun
