//! Radix sort of integers.

/// Below this length a comparison sort is faster.
const MIN_RADIX_LEN: usize = 128;

/// Sorts integers by their bits from `lowest` up. Long lists are sorted byte by byte, from the least significant, skipping bytes that are the same in
/// all of them.
pub(crate) fn radix_sort_from_bit(lowest: u32, numbers: &mut Vec<u64>) {
    let rank = |number: &u64| number >> lowest;
    if numbers.is_sorted_by_key(rank) {
        return;
    }
    if numbers.len() < MIN_RADIX_LEN {
        numbers.sort_unstable_by_key(rank);
        return;
    }
    let first = numbers.first().copied().unwrap_or_default();
    let differing =
        numbers.iter().fold(0, |differing, number| differing | (number ^ first)) >> lowest << lowest;
    let mut moved = vec![0; numbers.len()];
    // Sorting by further bits in the lowest byte is harmless.
    for shift in (0..u64::BITS).step_by(8) {
        if (differing >> shift) as u8 != 0 {
            counting_pass(shift, numbers, &mut moved);
            std::mem::swap(numbers, &mut moved);
        }
    }
}

/// Sorts stably by one byte.
fn counting_pass(shift: u32, numbers: &[u64], moved: &mut [u64]) {
    let byte = |number: u64| usize::from((number >> shift) as u8);
    let mut places = [0_usize; 256];
    for number in numbers {
        places.get_mut(byte(*number)).into_iter().for_each(|count| *count += 1);
    }
    let mut next = 0;
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    for number in numbers {
        let Some(place) = places.get_mut(byte(*number)) else { continue };
        moved.get_mut(*place).into_iter().for_each(|free| *free = *number);
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_sorted_by_their_higher_bits(
            numbers in prop::collection::vec(any::<u64>(), 0..400),
            (one, other) in any::<(u64, u64)>(),
            lowest in 0..u64::BITS,
        ) {
            // Some bytes are the same in all numbers, and some have few values.
            let mut numbers: Vec<u64> = numbers.into_iter().map(|number| number & one | other).collect();
            let mut sorted = numbers.clone();
            radix_sort_from_bit(lowest, &mut numbers);
            prop_assert!(numbers.is_sorted_by_key(|number| number >> lowest));
            // The result is a permutation of the input.
            sorted.sort_unstable();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, sorted);
        }
    }
}
