#include "launcher/round/raised_wait.hpp"

#include <initializer_list>

#include "tests/support/catch.hpp"

namespace ddprun::raised_wait {
namespace {

using A = RaisedAction;
using E = RaisedEvent;
using S = RaisedState;

struct Step {
    E event;
    A action;
    S next;
};

void walk(std::initializer_list<Step> steps) {
    RaisedMachine machine;
    for (const Step& step : steps) {
        INFO(name_of_value(machine.state()) << " + " << name_of_value(step.event));
        CHECK(machine.handle(step.event) == step.action);
        CHECK(machine.state() == step.next);
    }
}

}  // namespace

TEST_CASE("a signal goes on at once where nobody has raised anything") {
    walk({{E::held, A::read, S::reading},
          {E::nobody_left, A::go_on, S::idle},
          {E::sent, A::none, S::signalled}});
}

TEST_CASE("a signal waits for the worker that raised first") {
    walk({{E::held, A::read, S::reading},
          {E::raiser_runs, A::await_ends, S::awaiting_ends},
          {E::raiser_runs, A::none, S::awaiting_ends},
          {E::nobody_left, A::go_on, S::idle}});
    walk({{E::held, A::read, S::reading},
          {E::raiser_runs, A::await_ends, S::awaiting_ends},
          {E::time_over, A::go_on, S::idle}});
}

TEST_CASE("a victim alone waits for words, and then for their worker's end") {
    walk({{E::held, A::read, S::reading},
          {E::only_victim, A::await_words, S::awaiting_words},
          {E::only_victim, A::none, S::awaiting_words},
          {E::raiser_runs, A::await_ends, S::awaiting_ends},
          {E::only_victim, A::go_on, S::idle}});
    walk({{E::held, A::read, S::reading},
          {E::only_victim, A::await_words, S::awaiting_words},
          {E::time_over, A::go_on, S::idle}});
    walk({{E::held, A::read, S::reading},
          {E::only_victim, A::await_words, S::awaiting_words},
          {E::nobody_left, A::go_on, S::idle}});
}

TEST_CASE("nothing is awaited once the workers were sent a signal") {
    for (const E before : {E::nobody_left, E::only_victim, E::raiser_runs}) {
        RaisedMachine machine;
        machine.handle(E::held);
        machine.handle(before);
        machine.handle(E::sent);
        REQUIRE(machine.state() == S::signalled);
        for (const E event :
             {E::held, E::nobody_left, E::only_victim, E::raiser_runs, E::time_over, E::sent}) {
            CHECK(machine.handle(event) == A::none);
            CHECK(machine.state() == S::signalled);
        }
    }
}

TEST_CASE("nothing that is seen while no signal is held changes the wait") {
    RaisedMachine machine;
    for (const E event : {E::nobody_left, E::only_victim, E::raiser_runs, E::time_over}) {
        CHECK(machine.handle(event) == A::none);
        CHECK(machine.state() == S::idle);
    }
}

}  // namespace ddprun::raised_wait
