// check_protocol(): tries a protocol with the orders that its source has, then with each of its planted
// faults.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/collectives/memory_order/source_order.hpp"
#include "tests/collectives/memory_order/weak_memory.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace memory_order_test {

// Where the protocols are.
inline constexpr char kChannel[] = "collectives/shm/shm_channel.cpp";
inline constexpr char kChannelHeader[] = "collectives/shm/shm_channel.hpp";
inline constexpr char kWaiter[] = "collectives/shm/shm_waiter.cpp";
inline constexpr char kWaiterHeader[] = "collectives/shm/shm_waiter.hpp";
inline constexpr char kLine[] = "collectives/messages/shm_message_line.cpp";
inline constexpr char kFlow[] = "collectives/messages/message_flow.cpp";
inline constexpr char kExchangeHeader[] = "collectives/messages/message_exchange.hpp";
inline constexpr char kLifeline[] = "collectives/shm/shm_lifeline.cpp";
inline constexpr char kMessenger[] = "collectives/messages/messenger.cpp";
inline constexpr char kSleepers[] = "collectives/messages/message_sleepers.cpp";
inline constexpr char kMessengerHeader[] = "collectives/messages/messenger.hpp";
inline constexpr char kLifeTable[] = "rendezvous/worker/life_table.cpp";

// Step is a statement of a protocol, and the order with which the protocol has a fault.
struct Step {
    const char* name;
    Place place;
    Order planted;
};

using Orders = std::map<std::string, Order>;

// `make` gives a World the threads of the protocol, with these orders.
template <class Make>
void check_protocol(const std::vector<Step>& steps, Make make) {
    Orders orders;
    for (const Step& step : steps) orders[step.name] = source_order(step.place);
    const Found right = explore([&](World& world) { make(world, orders); });
    INFO("seed " << right.seed << ", " << right.runs << " runs");
    CHECK(right.fault == "");
    for (const Step& step : steps) {
        if (step.planted == orders[step.name]) FAIL(step.name << " has the planted order in the source");
        Orders weaker = orders;
        weaker[step.name] = step.planted;
        INFO("planted: " << step.name);
        CHECK(explore([&](World& world) { make(world, weaker); }).fault != "");
    }
}

}  // namespace memory_order_test
}  // namespace ddprun
