// split_words() finds where the launcher's own words end and the program's begin. Pure.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/option_row.hpp"

namespace CLI {
class App;
}

namespace ddprun {
inline namespace app {

struct LauncherWords {
    std::vector<std::string> options;  // for CLI11, with the options' whole names, and dashes in them
    std::vector<std::string> program;  // the program's name and its arguments
    TypedNames typed;
    std::string topic;             // what --help is asked about; empty: nothing in particular
    bool asks_short_help = false;  // by -h alone
    // valueless: the option, as typed, with nothing behind its "=", where the program follows at once.
    std::string valueless;
};

// Splits the words as argparse would. The launcher's words end at "--" or at the first word that is neither
// an option of `app`, nor one of the rows, nor an option's value. A single "--" is dropped, before the
// program or else directly behind its name.
//
// A long name may be abbreviated as long as only one option begins so. The options that torchrun has (see
// `groups`) count first, so ours make none of its abbreviations ambiguous. A habit from another launcher is
// no abbreviation, unless `by_torchruns_name`. A value of a short option may follow "=". An option with an
// empty value counts as not given and is left out.
//
// Throws UsageError for an option that is none, for an abbreviation of several, and for one without its
// value.
LauncherWords split_words(const CLI::App& app, const std::vector<OptionGroup>& groups,
                          const std::vector<std::string>& words, bool by_torchruns_name);

// Throws UsageError, with what to type here, where the word is an option of another launcher (habits.cpp);
// `next` is the word behind it, or empty.
void refuse_habit(const std::string& word, const std::string& next);
// Returns the names of these options, without dashes.
std::vector<std::string> habit_names();

// Throws UsageError where a word has signs that no user types: a document's dashes and quotes, a carriage
// return at its end. `is_value`: of an option, in a word of its own.
void refuse_signs(const std::string& word, bool is_value = false);

struct NodeProgram {
    int workers = 1;                 // they get the local ranks behind those of the programs before this one
    std::vector<std::string> words;  // the program's name and arguments, never empty
};

// Takes the programs behind a ":" out of `program`. Only a ":" with --nproc-per-node behind it begins a
// program; every other is an argument. A single "--" in front of such a program, or else directly behind its
// name, is dropped; an empty number is 1. Throws UsageError for one without a number or without a program.
std::vector<NodeProgram> take_further_programs(std::vector<std::string>& program);

}  // namespace app
}  // namespace ddprun
